"""Tidegate in Spark: the jobs that process and land batches, and what transforms and jobs of other makes import."""

from tidegate_spark.context import BatchContext
from tidegate_spark.outcome import Outcome, TransformError

__all__ = ["BatchContext", "Outcome", "TransformError"]
