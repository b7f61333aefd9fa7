annotations["chartwright.dev/suspend"] = "true"
return obj
