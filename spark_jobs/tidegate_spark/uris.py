"""URIs as Spark takes them."""


def spark_uri(uri: str) -> str:
    """`uri` as Spark's file systems want it: `s3://connection@bucket/key` is `s3a://bucket/key`.

    The connection is Airflow's: Spark has credentials of its own.
    Nothing is percent-decoded: Tidegate's URIs, like Hadoop's paths, take every character as it stands.
    """
    scheme, _, rest = uri.partition("://")
    if scheme not in ("s3", "s3a"):
        return uri
    bucket, slash, key = rest.partition("/")
    return f"s3a://{bucket.rpartition('@')[2]}{slash}{key}"
