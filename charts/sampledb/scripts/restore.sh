# Makes the first server's data from a dump, before there is a server. The data has its name only when it is whole.
set -euo pipefail
dump=/backups/$FILE
if [ -z "$FILE" ]; then
  dump=$(ls -1 /backups/*.dump | sort -r | head -n 1)
fi
if [ -e "$PGDATA" ]; then
  if [ "$(cat "$PGDATA/restored-from" 2>/dev/null)" = "$dump" ]; then
    exit 0
  fi
  echo "the volume has data that isn't from $dump: nothing is restored over it" >&2
  exit 1
fi
export PGDATA_NEW=$PGDATA.new PGHOST=/var/run/postgresql
rm -rf "$PGDATA_NEW"
initdb --pgdata="$PGDATA_NEW" --username=postgres --auth-local=trust --auth-host=scram-sha-256 >/dev/null
pg_ctl --pgdata="$PGDATA_NEW" --wait --silent --options="-c listen_addresses='' -c unix_socket_directories=$PGHOST" start
createuser "$APP_USER"
createdb --owner="$APP_USER" "$APP_DATABASE"
pg_restore --exit-on-error --no-owner --role="$APP_USER" --dbname="$APP_DATABASE" "$dump"
psql --quiet --set=ON_ERROR_STOP=1 --dbname=postgres <<'SQL'
\getenv password PGPASSWORD
ALTER ROLE postgres PASSWORD :'password';
SQL
pg_ctl --pgdata="$PGDATA_NEW" --wait --silent --mode=fast stop
echo "$dump" >"$PGDATA_NEW/restored-from"
mv "$PGDATA_NEW" "$PGDATA"
echo "restored: $dump"
