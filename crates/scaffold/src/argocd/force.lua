annotations["chartwright.dev/force-at"] = now
return obj
