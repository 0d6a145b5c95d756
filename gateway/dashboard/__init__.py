"""The dashboard: what speculation used and saved, drawn on the server. No script; nothing is fetched from elsewhere.

routing     a page's route: whatever happens in it, a browser gets a page
visitor     who looks: the cookie, its session, its key; tokens of forms
attempts    how often a wrong key may be tried
face        templates, styles and headers that all pages have
forms       what a form sent
filters     range, buckets, zone and tenant, from the address
charts      values → places in a drawing. Pure
sign_in, overview, deployments, limits      the pages

Everything that is looked at is what the API would tell the same key: access is `gateway.access`'s to say, figures are
those of `gateway.reports`.
"""
