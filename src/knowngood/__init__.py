"""knowngood: try a change on an LLM inference server, keep it only if it is proven better.

The public Python API is the names below; everything is loaded when it is first asked for, so that importing the
package costs nothing.
"""

__version__ = "0.1.0"
