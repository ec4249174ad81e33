"""The table of operators. Each draws its operands and parameters and adds an equation."""

from fuzz.operators import (
    elementwise,
    indexing,
    movement,
    nesting,
    ordering,
    products,
    reductions,
)

TABLE = [
    entry
    for module in (elementwise, movement, indexing, ordering, reductions, products, nesting)
    for entry in module.TABLE
]
