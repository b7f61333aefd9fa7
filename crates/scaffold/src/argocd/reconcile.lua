annotations["chartwright.dev/requested-at"] = now
return obj
