annotations["chartwright.dev/suspend"] = nil
return obj
