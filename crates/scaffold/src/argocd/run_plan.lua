if plan == nil or plan == "" then
  error("the parameter plan is missing: enter the name of a plan", 0)
end
-- The parameters of an earlier request do not apply to this run.
annotations["chartwright.dev/plan-params"] = nil
annotations["chartwright.dev/run-plan"] = plan .. "@" .. now
return obj
