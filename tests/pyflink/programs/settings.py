import json

from flinkray.pyflink.common import Configuration, Types
from flinkray.pyflink.datastream import (
    CheckpointingMode,
    ExternalizedCheckpointRetention,
    MemorySize,
    SlotSharingGroup,
    StreamExecutionEnvironment,
)


def main():
    config = Configuration()
    config.set_string("pipeline.name", "configured")
    config.set_integer("parallelism.default", 2)
    config.set_string("python.fn-execution.bundle.size", "10")
    print(config.get_string("pipeline.name", ""), config.get_integer("parallelism.default", 1))
    print(config.get_boolean("pipeline.operator-chaining.enabled", True), config.contains_key("pipeline.name"))
    env = StreamExecutionEnvironment.get_execution_environment(config)
    print(env.get_parallelism(), env.get_max_parallelism(), env.is_chaining_enabled(), env.get_buffer_timeout())
    env.set_parallelism(1).set_max_parallelism(64).set_buffer_timeout(10)
    print(env.get_parallelism(), env.get_max_parallelism(), env.get_buffer_timeout())
    env.enable_checkpointing(5000, CheckpointingMode.AT_LEAST_ONCE)
    checkpoints = env.get_checkpoint_config()
    checkpoints.set_checkpoint_timeout(60000)
    checkpoints.set_min_pause_between_checkpoints(500)
    checkpoints.set_max_concurrent_checkpoints(2)
    checkpoints.set_tolerable_checkpoint_failure_number(3)
    checkpoints.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    print(env.get_checkpoint_interval(), env.get_checkpointing_mode() == CheckpointingMode.AT_LEAST_ONCE)
    print(checkpoints.get_checkpoint_timeout(), checkpoints.get_min_pause_between_checkpoints())
    print(checkpoints.get_max_concurrent_checkpoints(), checkpoints.get_tolerable_checkpoint_failure_number())
    print(checkpoints.is_checkpointing_enabled(), checkpoints.is_externalized_checkpoints_enabled())
    checkpoints.enable_unaligned_checkpoints()
    print(checkpoints.is_unaligned_checkpoints_enabled())
    checkpoints.set_checkpointing_mode(CheckpointingMode.EXACTLY_ONCE)
    print(checkpoints.is_unaligned_checkpoints_enabled(), env.is_unaligned_checkpoints_enabled())
    execution = env.get_config()
    execution.set_auto_watermark_interval(100).set_global_job_parameters({"key": "value"})
    print(execution.get_auto_watermark_interval(), execution.get_parallelism(), execution.get_global_job_parameters())
    print(execution.is_object_reuse_enabled(), execution.enable_object_reuse().is_object_reuse_enabled())

    group = SlotSharingGroup.builder("heavy").set_cpu_cores(1.0).set_task_heap_memory_mb(100).build()
    print(group.get_name(), group.get_cpu_cores(), group.get_task_heap_memory().get_mebi_bytes())
    print(MemorySize.of_mebi_bytes(2).get_kibi_bytes(), MemorySize.of_mebi_bytes(1) < MemorySize.of_mebi_bytes(2))
    stream = env.from_collection([1, 2, 3], type_info=Types.INT())
    mapped = stream.map(lambda v: v + 1, Types.INT()).name("plus one").uid("plus-one").set_description("adds one")
    mapped.start_new_chain().set_max_parallelism(8).set_buffer_timeout(100)
    print(mapped.get_name(), mapped.get_execution_environment() is not None)
    kept = mapped.filter(lambda v: v != 3).disable_chaining().set_parallelism(2).slot_sharing_group("light")
    kept.print().name("the sink").uid("sink").set_parallelism(1)
    plan = json.loads(env.get_execution_plan())
    print(len(plan["nodes"]) >= 3, plan["nodes"][0]["pact"], plan["nodes"][-1]["parallelism"])
    print("plus one" in env.get_execution_plan(), flush=True)


if __name__ == "__main__":
    main()
