SELECT origin, MAX(mean_delay) AS mean_delay, ARG_MAX(window_end, mean_delay) AS window_end
FROM {{ ref('delays') }}
WHERE departures >= 20
GROUP BY origin
