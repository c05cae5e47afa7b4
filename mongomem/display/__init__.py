"""Pictures of both memories for notebooks: rich in Jupyter, plain text elsewhere.

    from mongomem.display import memory_map, table, timeline

    timeline(history)           the history of a thread, its forks as branches
    table(rows)                 items with their scores, threads, or any rows
    memory_map(store, prefix)   the memories of a namespace by their meaning, and `amemory_map`

In a notebook the functions are imported and not the module, whose name is that of IPython's
``display``.

    results         what a function of this folder returns: text, and HTML or a picture
    markup          HTML that is escaped by construction, and texts that fit into one line
    descriptions    what a line says of a value of a state or an item
    thread_history  the checkpoints of a history as steps: what each changed, asked and leads to
    lanes           in which column a step stands, and where branches leave
    lane_drawings   the lanes as text and as SVG
    timelines       `timeline`: steps as text and as HTML
    tables          `table`: rows as text and as HTML
    memory_maps     `memory_map`: two principal components of the stored vectors
    labels          where the labels of points stand, so that they can be read

What is shown comes from users and models: all of it is escaped, cut and freed of control
characters. The HTML has no script, loads nothing, and reads as a plain table where a viewer drops
its styles.
"""

from mongomem.display.memory_maps import MemoryMap, amemory_map, memory_map
from mongomem.display.results import Rendered
from mongomem.display.tables import table
from mongomem.display.timelines import timeline

__all__ = ["MemoryMap", "Rendered", "amemory_map", "memory_map", "table", "timeline"]
