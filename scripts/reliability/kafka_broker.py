"""A broker that speaks Kafka's protocol on loopback and can go away and come back with all it has.

It is librdkafka's own, inside this process. The Python client can start one, too, but has no call to make it go away.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

_PRODUCER, _BROKER = 0, 1


class KafkaBroker:
    """Lives as long as the process; topics are made on first use, with four partitions."""

    def __init__(self) -> None:
        self._library = _library()
        problem = ctypes.create_string_buffer(512)
        settings = self._library.rd_kafka_conf_new()
        for name, value in ((b"bootstrap.servers", b"none"), (b"log_level", b"0")):
            self._library.rd_kafka_conf_set(settings, name, value, problem, len(problem))
        holder = self._library.rd_kafka_new(_PRODUCER, settings, problem, len(problem))
        if not holder:
            raise RuntimeError(f"librdkafka does not start: {problem.value.decode()}")
        self._cluster = self._library.rd_kafka_mock_cluster_new(holder, 1)
        self.servers: str = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def go_away(self) -> None:
        """Breaks all connections and takes no new ones."""
        self._library.rd_kafka_mock_broker_set_down(self._cluster, _BROKER)

    def come_back(self) -> None:
        self._library.rd_kafka_mock_broker_set_up(self._cluster, _BROKER)


def _library() -> ctypes.CDLL:
    """The library that the Python client has brought along, with the types of what is called here."""
    import confluent_kafka

    (path,) = Path(confluent_kafka.__file__).parent.parent.glob("confluent_kafka.libs/librdkafka*.so*")
    library = ctypes.CDLL(str(path))
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    for name, result, arguments in (
        ("rd_kafka_conf_new", pointer, []),
        ("rd_kafka_conf_set", ctypes.c_int, [pointer, text, text, text, size]),
        ("rd_kafka_new", pointer, [ctypes.c_int, pointer, text, size]),
        ("rd_kafka_mock_cluster_new", pointer, [pointer, ctypes.c_int]),
        ("rd_kafka_mock_cluster_bootstraps", text, [pointer]),
        ("rd_kafka_mock_broker_set_down", ctypes.c_int, [pointer, ctypes.c_int32]),
        ("rd_kafka_mock_broker_set_up", ctypes.c_int, [pointer, ctypes.c_int32]),
    ):
        call = getattr(library, name)
        call.restype, call.argtypes = result, arguments
    return library
