"""Streams that go on: folders that files are moved into, Kafka topics, NATS streams, sockets.

Imports `shuffler.rows` and its neighbours in `shuffler.source`. Clients of brokers are imported when one is opened.
"""
