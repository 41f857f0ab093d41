"""The variance of a mean over runs and groups of test queries, from the definitions of the analysis of variance."""

import math


def mean_square(deviations, freedom):
    return sum(deviation**2 for deviation in deviations) / freedom


def crossed(table):
    """(mean, s2_run / R, s2_query / G, degrees of freedom) of a table with a row for each run, a column for each group.

    Every sum is written out as a text book has it: y_rg = mu + run_r + query_g + e_rg.
    """
    runs, groups = len(table), len(table[0])
    mean = sum(sum(row) for row in table) / (runs * groups)
    by_run = [sum(row) / groups for row in table]
    by_group = [sum(row[g] for row in table) / runs for g in range(groups)]
    rest = [table[r][g] - by_run[r] - by_group[g] + mean for r in range(runs) for g in range(groups)]
    ms_run = groups * mean_square([each - mean for each in by_run], runs - 1)
    ms_query = runs * mean_square([each - mean for each in by_group], groups - 1)
    ms_rest = mean_square(rest, (runs - 1) * (groups - 1))
    run_part = ms_run / (runs * groups)
    query_part = max(0.0, ms_query - ms_rest) / (runs * groups)
    below = (
        (ms_run / (runs * groups)) ** 2 / (runs - 1)
        + (ms_query / (runs * groups)) ** 2 / (groups - 1)
        + (ms_rest / (runs * groups)) ** 2 / ((runs - 1) * (groups - 1))
    )
    freedom = max(1.0, (run_part + query_part) ** 2 / below) if below > 0.0 else 1.0
    return mean, run_part, query_part, freedom


def joined(folds):
    """(mean, variance over all runs, variance from the queries of each fold) of several tables of the same width."""
    means = [sum(row) / len(row) for table in folds for row in table]
    n = len(means)
    mean = math.fsum(means) / n
    over_runs = mean_square([each - mean for each in means], n - 1) / n
    of_queries = sum((len(table) / n) ** 2 * crossed(table)[2] for table in folds if len(table) > 1)
    return mean, over_runs, of_queries
