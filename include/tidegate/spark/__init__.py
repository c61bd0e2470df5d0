"""Running the Spark job of a delivery from here: by spark-submit, or as a client of a Spark Connect server."""
