local os = require("os")
local now = os.date("!%Y-%m-%dT%XZ")
if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
local annotations = obj.metadata.annotations
