"""One operator per file; :func:`tidemill.task.build.build` makes the operator of a program step."""
