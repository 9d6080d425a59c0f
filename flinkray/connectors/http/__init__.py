"""HTTP: rows as requests, requests as rows, and rows as events for those who listen.

Open `sink.py`, `webhook.py` and `event_sink.py` first. `target.py` makes bodies of rows, `writer.py` sends them;
`bodies.py` takes the messages out of what came, `intake.py` decides whether it is taken and when it is answered;
`events.py` makes server-sent events of rows. `server.py` is the thread with aiohttp, which comes with `flinkray[http]`,
under both servers; `clients.py` says what addresses and answers mean, `lookup.py` asks for rows by key.
Imports `flinkray.connectors` and `flinkray.connectors.formats`.
"""
