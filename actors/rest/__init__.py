"""Flink's REST interface over a cluster: what the masters know, in the shapes of `flinkray.rest`.

`service.py` answers one request, and is plain code that can be called; open it first. `server.py` is the HTTP shell
around it, the only module that knows aiohttp, `access.py` says who may ask, and `starting.py` puts all together.
`page/` has the page that browsers show, which `files.py` gives: modules that they load as they are, `app.js` first.
"""
