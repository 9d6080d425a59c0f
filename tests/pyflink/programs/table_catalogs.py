import datetime

from flinkray.pyflink.common import Configuration
from flinkray.pyflink.table import (
    DataTypes,
    EnvironmentSettings,
    FormatDescriptor,
    Schema,
    SqlDialect,
    TableConfig,
    TableDescriptor,
    TableEnvironment,
    TableSchema,
)
from flinkray.pyflink.table.catalog import (
    CatalogBaseTable,
    CatalogDatabase,
    CatalogDescriptor,
    ObjectPath,
)
from flinkray.pyflink.table.expressions import col


def catalogs(t_env):
    memory = Configuration()
    memory.set_string("type", "generic_in_memory")
    t_env.create_catalog("other", CatalogDescriptor.of("other", memory, "a second one"))
    print("catalogs:", sorted(t_env.list_catalogs()), t_env.get_current_catalog(), t_env.get_current_database())
    catalog = t_env.get_catalog("other")
    print("databases:", catalog.list_databases(), catalog.get_default_database(), catalog.database_exists("nowhere"))
    catalog.create_database("db", CatalogDatabase.create_instance({"k": "v"}, "of tests"), False)
    catalog.create_database("db", CatalogDatabase.create_instance({"k": "w"}, "again"), True)
    found = catalog.get_database("db")
    print("database:", found.get_properties(), found.get_comment(), sorted(catalog.list_databases()))
    path = ObjectPath("db", "t")
    schema = TableSchema(["a", "b"], [DataTypes.INT(), DataTypes.STRING()])
    made = CatalogBaseTable.create_table(
        schema, properties={"connector": "datagen", "number-of-rows": "2"}, comment="some rows"
    )
    catalog.create_table(path, made, False)
    catalog.create_table(path, made, True)
    table = catalog.get_table(path)
    print(
        "table:",
        sorted(table.get_options().items()),
        table.get_comment(),
        catalog.list_tables("db"),
        catalog.table_exists(path),
        catalog.table_exists(ObjectPath("db", "u")),
        path.get_full_name(),
    )
    catalog.rename_table(path, "u", False)
    print("renamed:", catalog.list_tables("db"), catalog.list_views("db"), catalog.list_functions("db"))
    t_env.use_catalog("other")
    t_env.use_database("db")
    print(
        "current:", t_env.get_current_catalog(), t_env.get_current_database(), t_env.list_tables(), t_env.list_views()
    )
    catalog.drop_table(ObjectPath("db", "u"), False)
    catalog.drop_table(ObjectPath("db", "u"), True)
    t_env.use_catalog("default_catalog")
    catalog.drop_database("db", False)
    print("dropped:", sorted(catalog.list_databases()), t_env.get_catalog("none"))
    for name, wrong in {
        "no_table": lambda: catalog.get_table(ObjectPath("default", "none")),
        "no_database": lambda: catalog.get_database("none"),
        "no_drop": lambda: catalog.drop_table(ObjectPath("default", "none"), False),
    }.items():
        try:
            wrong()
            print(f"{name}: nothing raised")
        except Exception:
            print(f"{name}: raised")


def names(t_env):
    t = t_env.from_elements([(1, "a")], ["n", "s"])
    t_env.create_temporary_view("first", t)
    t_env.create_temporary_view("second", t.select(col("s")))
    print("temporary:", sorted(t_env.list_temporary_tables()), sorted(t_env.list_temporary_views()))
    print(
        "dropped:",
        t_env.drop_temporary_view("second"),
        t_env.drop_temporary_view("second"),
        t_env.list_temporary_views(),
    )
    descriptor = (
        TableDescriptor.for_connector("blackhole")
        .schema(Schema.new_builder().column("n", DataTypes.BIGINT()).column("s", DataTypes.STRING()).build())
        .build()
    )
    t_env.create_table("hole", descriptor)
    t_env.create_table("hole", descriptor, True)
    t_env.create_temporary_table("short_hole", descriptor)
    print(
        "tables:",
        sorted(t_env.list_tables()),
        t_env.drop_temporary_table("short_hole"),
        t_env.drop_table("hole"),
        t_env.drop_table("hole"),
        sorted(t_env.list_tables()),
    )
    print("modules:", t_env.list_modules())
    print(
        "settings:",
        EnvironmentSettings.in_batch_mode().is_streaming_mode(),
        EnvironmentSettings.new_instance()
        .with_built_in_catalog_name("mine")
        .with_built_in_database_name("own")
        .build()
        .get_built_in_catalog_name(),
    )
    mine = TableEnvironment.create(
        EnvironmentSettings.new_instance()
        .in_batch_mode()
        .with_built_in_catalog_name("mine")
        .with_built_in_database_name("own")
        .build()
    )
    print(
        "named:", mine.list_catalogs(), mine.list_databases(), mine.get_current_catalog(), mine.get_current_database()
    )


def configuration(t_env):
    config = t_env.get_config()
    config.set("python.fn-execution.bundle.size", "100").set("table.exec.state.ttl", "2 s")
    print(
        "get:",
        config.get("python.fn-execution.bundle.size", "1"),
        config.get("parallelism.default", "1"),
        config.get("table.exec.mini-batch.size", "-5"),
    )
    print("retention:", config.get_idle_state_retention())
    config.set_idle_state_retention(datetime.timedelta(hours=1, milliseconds=5))
    print("retention_set:", config.get_idle_state_retention())
    config.set_sql_dialect(SqlDialect.DEFAULT)
    config.set_max_generated_code_length(32000)
    print("others:", config.get_sql_dialect() == SqlDialect.DEFAULT, config.get_max_generated_code_length())
    more = Configuration()
    more.set_string("pipeline.name", "a job")
    config.add_configuration(more)
    print("added:", config.get("pipeline.name", ""), TableConfig.get_default().get("pipeline.name", "none"))


def schemas(t_env):
    t = t_env.sql_query(
        "SELECT 1 AS i, CAST('a' AS VARCHAR(5)) AS v, DATE '2024-01-02' AS d, TIMESTAMP '2024-01-02 03:04:05' AS t, "
        "CAST(1 AS DECIMAL(8, 2)) AS m, ARRAY[1] AS r, MAP['a', 1] AS p, ROW(1, 'b') AS w, X'01' AS x, 1e0 AS f"
    )
    t.print_schema()
    fields = t.get_schema()
    print("fields:", fields.get_field_count(), fields.get_field_names(), fields.get_field_name(2))
    old = TableSchema.builder().field("a", DataTypes.INT()).field("b", DataTypes.STRING()).build()
    print(
        "old:",
        old.get_field_names(),
        old.get_field_count(),
        old.get_field_name(1),
        old == TableSchema(["a", "b"], [DataTypes.INT(), DataTypes.STRING()]),
    )
    made = (
        Schema.new_builder()
        .from_fields(["a", "b"], [DataTypes.INT(), DataTypes.STRING(False)])
        .column_by_expression("c", "a + 1")
        .column_by_metadata("m", DataTypes.BIGINT(), "key", True)
        .watermark("ts", "ts - INTERVAL '1' SECOND")
        .primary_key_named("pk", "b")
        .build()
    )
    again = Schema.new_builder().from_schema(made).build()
    print("equal:", made == again, FormatDescriptor.for_format("json").build().get_format())
    print(
        "row:",
        DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())])
        == DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())]),
        DataTypes.INT() == DataTypes.INT(False),
        DataTypes.INT().not_null() == DataTypes.INT(False),
    )


def main():
    t_env = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    t_env.get_config().set("parallelism.default", "1")
    catalogs(t_env)
    names(t_env)
    configuration(t_env)
    schemas(t_env)


if __name__ == "__main__":
    main()
