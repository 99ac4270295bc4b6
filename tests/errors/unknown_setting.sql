SET 'table.optimizer.agg-phase-stratgy' = 'AUTO';
