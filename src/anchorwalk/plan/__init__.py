"""How a budget is spent: plans, the planner with its pilots and rates, and what a plan costs.

Import from the modules: `plan.plan`, `plan.planner`, `plan.describe`. `plan.plan` is imported by `run.sample`, which
the planner calls, so this file imports nothing.
"""
