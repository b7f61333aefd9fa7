local true_texts = {["1"] = true, ["t"] = true, ["T"] = true, ["true"] = true, ["TRUE"] = true, ["True"] = true}
local suspended = true_texts[(obj.metadata.annotations or {})["chartwright.dev/suspend"]] == true
local deleted = obj.metadata.deletionTimestamp ~= nil
local idle = suspended or deleted
local actions = {}
actions["suspend"] = {["disabled"] = idle, ["iconClass"] = "fa fa-fw fa-pause-circle"}
actions["resume"] = {["disabled"] = deleted or not suspended, ["iconClass"] = "fa fa-fw fa-play-circle"}
actions["reconcile"] = {["disabled"] = idle, ["iconClass"] = "fa fa-fw fa-sync"}
actions["force"] = {["disabled"] = idle, ["iconClass"] = "fa fa-fw fa-bolt"}
if rollback then
  actions["rollback"] = {["disabled"] = idle or healthy_revision() == nil, ["iconClass"] = "fa fa-fw fa-undo"}
end
local plans = {}
if type(obj.status) == "table" and type(obj.status.plans) == "table" then
  plans = obj.status.plans
end
for _, plan in ipairs(plans) do
  if type(plan) == "table" and type(plan.name) == "string" and (plan.invalid == nil or plan.invalid == "") then
    if defined_plans[plan.name] then
      actions["run-plan-" .. plan.name] = {["disabled"] = idle, ["iconClass"] = "fa fa-fw fa-play"}
    elseif actions["run-plan"] == nil then
      actions["run-plan"] = {
        ["disabled"] = idle,
        ["iconClass"] = "fa fa-fw fa-play",
        ["params"] = {{["name"] = "plan", ["default"] = plan.name}},
      }
    end
  end
end
return actions
