#!/bin/sh
# Prints a .env for docker-compose.yaml with fresh secrets:  (umask 077; sh docker/new-env.sh > .env)
set -eu
hex() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
cat <<ENV
# Secrets of this installation; keep this file out of version control. Postgres takes its password when its volume
# is made and Airflow's stored connections need the Fernet key, so neither can simply be replaced later.
TIDEGATE_POSTGRES_PASSWORD=$(hex)
TIDEGATE_AIRFLOW_FERNET_KEY=$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')
TIDEGATE_AIRFLOW_JWT_SECRET=$(hex)
TIDEGATE_AIRFLOW_SECRET_KEY=$(hex)
# What else can be set, with its default:
#TIDEGATE_OPERATORS=
#TIDEGATE_JOB_ENVIRONMENT=
#TIDEGATE_HTTP_ALLOWED=
#TIDEGATE_OPERATOR_ROLES=
#TIDEGATE_MONITOR_SCHEDULE=
#TIDEGATE_MAINTENANCE_SCHEDULE=
#TIDEGATE_UMASK=
#TIDEGATE_AIRFLOW_PORT=8080
#TIDEGATE_KAFKA_PORT=29092
#TIDEGATE_SPARK_UI_PORT=8081
#TIDEGATE_SPARK_WORKER_CORES=2
#TIDEGATE_SPARK_WORKER_MEMORY=2g
#TIDEGATE_SPARK_WORKER_LIMIT=4g
#TIDEGATE_SPARK_EXECUTOR_MEMORY=1g
ENV
