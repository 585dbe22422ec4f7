"""The codec alone: values to JSON and back, with the same limits as inputs and results."""

from datetime import UTC, datetime

from windlass import BadPayload, codec

order = {"id": 7, "at": datetime(2030, 1, 1, tzinfo=UTC), "items": ("a", "b")}
data = codec.encode(order, what="order")
print(data.decode())
print(codec.decode(data))

# The same hash for the same value, however it is written.
print(codec.canonical_hash(b'{"a": 1, "b": 2}') == codec.canonical_hash(b'{"b":2,"a":1}'))

try:
    codec.encode({"rate": float("nan")}, what="order")
except BadPayload as error:
    print(error)
