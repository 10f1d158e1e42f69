"""What people use without writing Python: the command line, tables from files, the report, the demo.

`app.cli` is what the `anchorwalk` command runs; `app.tables`, `app.report` and `app.demo` do the work and may be
imported. They need the extra `cli`.
"""
