"""`pyflink.util.java_utils`."""

from __future__ import annotations

from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = unavailable(
    __name__,
    "get_j_env_configuration to_jarray load_java_class get_field get_field_value invoke_method "
    "is_instance_of add_jars_to_context_class_loader",
    "there is no Java here; options are set with env.configure(Configuration()) and t_env.get_config().set(key, value)",
)
