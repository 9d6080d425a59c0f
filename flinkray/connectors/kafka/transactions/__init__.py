"""Transactions of Kafka, for sinks that write exactly once.

Open `coordinators.py` first: it lists, commits and aborts transactions whose producer may be gone, by what a
`KafkaTransaction` holds. `producers.py` has a producer for each transaction, `transactional_ids.py` names them and says
which were left behind, `committer.py` commits them, `list_transactions.py` is a question that aiokafka lacks. Imports
`flinkray.connectors.kafka.clients`.
"""
