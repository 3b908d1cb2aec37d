"""The faces: command line, report. They parse, make one app call, and show one view."""
