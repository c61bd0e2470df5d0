"""Has jobs over Spark Connect be forks, as those of Airflow's tasks are, in whatever is forked from its importer."""

from tidegate.spark import fork_server

fork_server.begin()
