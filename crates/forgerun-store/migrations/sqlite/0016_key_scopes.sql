-- Keys beside the primary one have a name. Keys of before have all scopes.
ALTER TABLE api_keys ADD COLUMN name TEXT;
ALTER TABLE api_keys ADD COLUMN scopes INTEGER;  -- bits; null for all
