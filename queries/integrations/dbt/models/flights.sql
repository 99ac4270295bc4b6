SELECT origin, dest, sched_dep, dep_delay
FROM read_parquet('{{ var("flights_file") }}')
