"""Charts as places in a drawing: values in, geometry out, a template prints it. Pure.

Across, places are percentages of the drawing's width, so that it fits a phone and its letters keep their size; down,
they are pixels of its fixed height.
"""
