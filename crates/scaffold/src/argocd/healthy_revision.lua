-- The last healthy revision before the current one whose render is stored; nil if there is none.
local function healthy_revision()
  local status = obj.status
  if type(status) ~= "table" or type(status.history) ~= "table" or type(status.release) ~= "table" then
    return nil
  end
  local current = status.release.revision
  for _, entry in ipairs(status.history) do
    if type(entry) == "table" and entry.revision == status.release.revision and entry.rollbackTo ~= nil then
      current = entry.rollbackTo
    end
  end
  local found = nil
  for _, entry in ipairs(status.history) do
    if type(entry) == "table" and entry.healthy == true and entry.kept == true
        and type(entry.revision) == "number" and type(current) == "number" and entry.revision < current then
      found = entry.revision
    end
  end
  return found
end
