# The first configuration, and again after each upgrade: the account and the database of the application. That it can sign
# in at all says that the upgraded server works.
set -euo pipefail
psql --set=ON_ERROR_STOP=1 --dbname=postgres <<'SQL'
\getenv name APP_USER
\getenv password APP_PASSWORD
\getenv database APP_DATABASE
SELECT format('CREATE ROLE %I LOGIN', :'name') WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'name') \gexec
ALTER ROLE :"name" PASSWORD :'password';
SELECT format('CREATE DATABASE %I OWNER %I', :'database', :'name')
  WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'database') \gexec
SQL
echo "the database $APP_DATABASE of $APP_USER is there"
