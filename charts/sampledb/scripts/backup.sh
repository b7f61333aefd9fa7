# A dump of the application's database, which has its name only when it is whole; the oldest ones go.
set -euo pipefail
umask 077
file=/backups/$(date -u +%Y%m%dT%H%M%SZ).dump
pg_dump --format=custom --dbname="$APP_DATABASE" --file="$file.part"
mv "$file.part" "$file"
echo "backup: $file, $(stat -c %s "$file") bytes"
ls -1 /backups/*.dump | sort -r | tail -n "+$((KEEP + 1))" | xargs -r rm -v --
