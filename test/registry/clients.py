"""What Confluent's client for Python writes and reads, for test/integration/schema_registry_clients.rb.

    python3 clients.py write|read BOOTSTRAP REGISTRY TOPIC < schemas.json

schemas.json: {"key": "…", "value": "…", "references": [["shop.Line", "subject", 1]]}. `write` sends each of VALUES with
its place in the list as key. `read` compares what is in the topic with them, and prints the number of messages.
"""

import datetime
import json
import sys
import uuid
from decimal import Decimal

from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

UTC = datetime.timezone.utc

# The Ruby file has the same values.
VALUES = [
    {
        "number": -(2**63), "small": 2**31 - 1, "name": "Größe € \U0001f600", "paid": True, "weight": 0.1, "ratio": 0.5,
        "raw": bytes(range(256)), "code": b"\0\1\2\3", "total": Decimal("-12.07"),
        "at": datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, UTC),
        "exact": datetime.datetime(2026, 11, 30, 8, 0, 0, 1, UTC), "day": datetime.date(1970, 1, 31),
        "id": uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"), "kind": "OPEN",
        "lines": [{"name": "a", "price": Decimal("9.99")}, {"name": "", "price": Decimal("0.00")}],
        "tags": {"ä": 1, "b": -1}, "note": "n", "either": 7, "before": None,
    },
    {
        "number": 0, "small": 0, "name": "", "paid": False, "weight": -0.0, "ratio": 1.5, "raw": b"", "code": b"abcd",
        "total": Decimal("9999999.99"), "at": datetime.datetime(1970, 1, 1, tzinfo=UTC),
        "exact": datetime.datetime(1970, 1, 1, tzinfo=UTC), "day": datetime.date(1969, 12, 31),
        "id": uuid.UUID(int=0), "kind": "PAID", "lines": [], "tags": {}, "note": None, "either": "seven",
        "before": None,
    },
]
VALUES.append({**VALUES[0], "before": VALUES[1]})


def client(url):
    return SchemaRegistryClient({"url": url})


def write(bootstrap, registry, topic, schemas):
    references = [SchemaReference(*reference) for reference in schemas["references"]]
    value = AvroSerializer(registry, Schema(schemas["value"], "AVRO", references))
    key = AvroSerializer(registry, schemas["key"])
    producer = Producer({"bootstrap.servers": bootstrap})
    for place, row in enumerate(VALUES):
        producer.produce(topic, key=key(place, SerializationContext(topic, MessageField.KEY)),
                         value=value(row, SerializationContext(topic, MessageField.VALUE)))
    sys.exit(producer.flush(60))


def read(bootstrap, registry, topic):
    value, key = AvroDeserializer(registry), AvroDeserializer(registry)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}-python", "auto.offset.reset": "earliest",
                         "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.subscribe([topic])
    count = 0
    while True:
        message = consumer.poll(60)
        if message is None or (message.error() and message.error().name() == "_PARTITION_EOF"):
            break
        if message.error():
            sys.exit(str(message.error()))
        headers = message.headers() or []
        place = key(message.key(), SerializationContext(topic, MessageField.KEY, headers))
        found = value(message.value(), SerializationContext(topic, MessageField.VALUE, headers))
        wanted = VALUES[place]
        if found != wanted:
            sys.exit(f"message {count}: expected {wanted}, got {found}")
        count += 1
    consumer.close()
    print(count)


if __name__ == "__main__":
    action, bootstrap, url, topic = sys.argv[1:]
    if action == "write":
        write(bootstrap, client(url), topic, json.load(sys.stdin))
    else:
        read(bootstrap, client(url), topic)
