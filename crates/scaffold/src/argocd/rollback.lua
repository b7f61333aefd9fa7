local revision = healthy_revision()
if revision == nil then
  error("no earlier revision was healthy and is stored", 0)
end
annotations["chartwright.dev/rollback-to"] = tostring(revision) .. "@" .. now
return obj
