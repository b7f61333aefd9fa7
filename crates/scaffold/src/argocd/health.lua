-- Health of a custom resource that Chartwright reconciles, from its conditions.
local health = {status = "Progressing", message = "Waiting for the operator"}
local conditions = {}
if type(obj.status) == "table" and type(obj.status.conditions) == "table" then
  for _, condition in ipairs(obj.status.conditions) do
    -- A condition of an earlier generation does not describe the current spec.
    if type(condition) == "table" and condition.type ~= nil
        and condition.observedGeneration == obj.metadata.generation then
      conditions[condition.type] = condition
    end
  end
end
local ready = conditions["Ready"]
if ready ~= nil and ready.message ~= nil then
  health.message = ready.message
end
if obj.metadata.deletionTimestamp ~= nil then
  if ready == nil or ready.reason ~= "Uninstalling" then
    health.message = "Pending deletion"
  end
  return health
end
for _, state in ipairs({{"Suspended", "Suspended"}, {"Stalled", "Degraded"}}) do
  local condition = conditions[state[1]]
  if condition ~= nil and condition.status == "True" then
    return {status = state[2], message = condition.message}
  end
end
if ready ~= nil and ready.status == "True" then
  health.status = "Healthy"
end
return health
