"""The models that this gateway serves, as the database says.

speculation   document      what an operator may write          (strict, validated by name)
families      memory        what can be said of a model before and after it is loaded
local_engine  replica       one engine process: fetched, started, healed, kept at its drafter configuration
balance                     several replicas as one engine: least in flight, cool-down, another try before the start
generation    serving       the replicas of one load; a deployment, and how it goes over from one load to the next
fleet                       follows the database, and says what there is to route to
view          changes       a deployment as the admin API tells it, and how it is changed there
"""
