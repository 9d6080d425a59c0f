"""One source after another, as files of the past and then the log that goes on from there (after Flink's HybridSource).

- `source.py`: the source. Open it first.
- `enumerator.py`: which of the sources is read, and when all readers have read one.
- `reader.py`: a subtask's reader of whichever source is read.
- `messages.py`: what both say to each other.
"""
