SELECT * FROM flights MATCH_RECOGNIZE (PARTITION BY origin ORDER BY sched_dep MEASURES A.dep_delay AS d PATTERN (A B) DEFINE A AS A.dep_delay > 1)
