"""The sink that brings rows to the driver. Open `sink.py`; its writer is `actors/operators/sinks/collect_writer.py`."""
