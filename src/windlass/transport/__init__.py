"""How run ids reach workers. The store is the truth whatever the transport does."""
