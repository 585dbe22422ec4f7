"""What runs: workers and the services beside them."""
