"""From a jaxpr to a model: the options of an export, the export, and the forms of its result."""
