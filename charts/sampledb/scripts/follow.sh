# Every server but the first begins as a copy of it, and follows it from then on.
set -euo pipefail
if [ "${HOSTNAME##*-}" = 0 ] || [ -e "$PGDATA" ]; then
  exit 0
fi
rm -rf "$PGDATA.new"
pg_basebackup --pgdata="$PGDATA.new" --write-recovery-conf --wal-method=stream --checkpoint=fast
mv "$PGDATA.new" "$PGDATA"
