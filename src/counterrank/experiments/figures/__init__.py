"""The figures of the paper and two of our own, one module each; importing this package registers them."""

from counterrank.experiments.figure_registry import register_figure
from counterrank.experiments.figures import (
    click_numbers,
    few_clicks,
    logging_policies,
    loss_functions,
    page_size,
    safety,
)

for _module in (page_size, click_numbers, loss_functions, logging_policies, few_clicks, safety):
    register_figure(_module.FIGURE)
