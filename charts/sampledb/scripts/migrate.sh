# Carries out the migrations that the database doesn't have yet, each in a transaction of its own.
set -euo pipefail
export PGDATABASE=$APP_DATABASE PGOPTIONS="--role=$APP_USER"
run() { psql --quiet --set=ON_ERROR_STOP=1 "$@"; }
run --command='CREATE TABLE IF NOT EXISTS schema_migrations (name text PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())'
for file in /migrations/*.sql; do
  name=$(basename "$file" .sql)
  name=${name#*_}
  if [ -n "$(run --tuples-only --no-align --command="SELECT 1 FROM schema_migrations WHERE name = '$name'")" ]; then
    continue
  fi
  run --single-transaction --file="$file" --command="INSERT INTO schema_migrations (name) VALUES ('$name')"
  echo "migrated: $name"
done
