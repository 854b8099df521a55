"""Questions to the entries of `matching_set`, each with the entry that answers it, if one does."""

from tests.matching_set import Asked


def _of(answer: str, *texts: str, group: str = "paraphrase", useful: str = "") -> list[Asked]:
    return [Asked(text, answer, tuple(useful.split()), group) for text in texts]


def _none(group: str, *pairs: tuple[str, str]) -> list[Asked]:
    """No entry answers these; each with the keys of those that are worth offering beside it."""
    return [Asked(text, None, tuple(useful.split()), group) for text, useful in pairs]


_SHORT = [
    *_of("auth", "auth", "how does auth work?", "where is authentication implemented", "JWT login"),
    *_of("session-store", "session store", "where are sessions stored?", "redis sessions ttl"),
    *_of("permissions", "permissions", "role based authorization", "how do permissions work here"),
    *_of("password-reset", "password reset flow", "forgot password", "how is a password reset"),
    *_of("oauth-login", "oauth login", "Google sign-in", "how does GitHub OAuth login work"),
    *_of("cart", "cart", "shopping cart", "how is the cart implemented?"),
    *_of("checkout-flow", "checkout flow", "explain the checkout flow", "checkout steps"),
    *_of("payments", "payments", "stripe payments", "how do payments work?"),
    *_of("refunds", "refunds", "how are refunds handled", "partial refund"),
    *_of("webhooks", "webhooks", "how are incoming webhooks processed?", "stripe webhooks"),
    *_of("order-lifecycle", "order lifecycle", "order state machine", "order status transitions"),
    *_of("inventory", "inventory", "stock reservation", "how is inventory managed"),
    *_of("product-search", "product search", "elasticsearch search", "how does search work"),
    *_of("product-catalog", "product catalog", "product variants and categories"),
    *_of("product-images", "product images", "image upload to s3", "how are images resized"),
    *_of("coupons-and-discounts", "coupons", "discount rules", "how are coupon codes applied?"),
    *_of("tax-calculation", "tax calculation", "how is VAT calculated", "reverse charge vat"),
    *_of("shipping-rates", "shipping rates", "where do shipping rates come from", "DHL UPS rates"),
    *_of("email-sending", "email sending", "how are emails sent", "mjml email templates"),
    *_of("push-notifications", "push notifications", "web push", "VAPID subscriptions"),
    *_of("background-jobs", "background jobs", "bullmq queues", "how do background jobs work"),
    *_of("cron-schedules", "cron schedules", "where are recurring tasks declared", "cron jobs"),
    *_of("rate-limiting", "rate limiting", "how is rate limiting done", "token bucket limits"),
    *_of("http-caching", "http caching", "cdn purge", "ETag and cache headers"),
    *_of("database-schema", "database schema", "prisma schema", "db schema overview"),
    *_of("migrations", "migrations", "how do database migrations work", "prisma migrate"),
    *_of("db-connections", "db connections", "pgbouncer pool", "how do we use read replicas"),
    *_of("error-handling", "error handling", "error middleware", "how are errors handled?"),
    *_of("logging", "logging", "how does logging work", "pino logger", "log redaction of secrets"),
    *_of("observability", "observability", "prometheus metrics", "opentelemetry traces"),
    *_of(
        "feature-flags", "feature flags", "how are feature flags evaluated?", "percentage rollout"
    ),
    *_of("config-loading", "config loading", "how is configuration loaded", "env variables"),
    *_of("i18n", "i18n", "how do translations work", "internationalization", "locale messages"),
    *_of("frontend-routing", "frontend routing", "next.js app router route groups"),
    *_of("client-state", "client state", "zustand stores", "react query and zustand"),
    *_of("ui-components", "ui components", "design system", "storybook tokens"),
    *_of("form-validation", "form validation", "how are forms validated", "zod schemas for forms"),
    *_of("api-client", "api client", "how is the api client generated", "orval openapi client"),
    *_of("graphql-gateway", "graphql gateway", "apollo server", "dataloader in graphql"),
    *_of("testing-setup", "testing setup", "playwright e2e", "how are tests set up"),
    *_of("ci-pipeline", "ci pipeline", "github actions ci", "what does the CI pipeline run"),
    *_of("deployment", "deployment", "helm chart argo rollouts", "how is the app deployed?"),
    *_of("docker-images", "docker images", "Dockerfile stages", "how is the docker image built"),
    *_of("release-process", "release process", "changesets", "how do we release"),
    *_of("admin-dashboard", "admin dashboard", "back office app"),
    *_of("audit-log", "audit log", "how does the audit log work?", "who changed what: audit log"),
    *_of("analytics-events", "analytics events", "segment tracking", "consent for analytics"),
    *_of("csv-import", "csv import", "how are products imported from CSV"),
    *_of("invoices", "invoices", "invoice pdf rendering", "how are invoice numbers assigned"),
    *_of("gdpr-export", "gdpr export", "data erasure gdpr", "gdpr data export job"),
    *_of("customer-reviews", "customer reviews", "review moderation", "product reviews"),
    *_of("recommendations", "recommendations", "bought together", "product affinity"),
    *_of("monorepo-tooling", "monorepo tooling", "turborepo pnpm workspaces"),
    *_of("shopctl", "shopctl", "shopctl commands", "command line for operators"),
    *_of("api-errors", "api errors"),
    *_of("naming", "naming", "naming of files and components"),
    *_of("repositories", "repositories", "prisma repositories"),
    *_of("products-get", "GET /api/products/:id", "what does GET /api/products/:id return"),
    *_of("decisions/event-bus", "event bus", "outbox table nats", "domain events outbox relay"),
]

_IN_OTHER_WORDS = [
    *_of(
        "auth",
        "Where do we verify the JWT access token on each request?",
        "how are users authenticated and how is the refresh token issued",
        "Which middleware checks that a user is logged in?",
        "bcrypt password hashes at login",
    ),
    *_of("session-store", "what happens to a session on logout", "how long do sessions live"),
    *_of("permissions", "how do route guards check roles", "where is the policy table consulted"),
    *_of("password-reset", "how does the forgotten password link work"),
    *_of("oauth-login", "how are Google accounts linked to existing accounts"),
    *_of("cart", "how are anonymous carts merged at login", "where are cart totals computed"),
    *_of(
        "checkout-flow",
        "how does the checkout draft become an order",
        "what steps does the checkout wizard have",
    ),
    *_of("payments", "when is the Stripe PaymentIntent captured", "3-D Secure handling"),
    *_of("refunds", "what does refundOrder do", "how is a credit note written for a refund"),
    *_of("webhooks", "how do we verify the signature of a webhook"),
    *_of("order-lifecycle", "what states can an order be in", "how is order_history written"),
    *_of("inventory", "when is stock decremented", "how do stock reservations expire"),
    *_of("product-search", "how are search facets computed", "how is the product index rebuilt"),
    *_of("product-images", "which sizes are made of an uploaded product image"),
    *_of("coupons-and-discounts", "can coupon codes be stacked", "applyDiscounts priority"),
    *_of("tax-calculation", "how is tax computed for B2B customers with a VAT id"),
    *_of("shipping-rates", "what if the carrier API times out when fetching rates"),
    *_of("email-sending", "how do we deal with email bounces", "sendMail"),
    *_of("push-notifications", "do push notifications respect quiet hours"),
    *_of("background-jobs", "where do dead letter jobs go", "how do I define a job with defineJob"),
    *_of("cron-schedules", "how is the scheduler leader elected"),
    *_of("rate-limiting", "how do we stop somebody from hammering the API", "429 Retry-After"),
    *_of("http-caching", "how is the edge cache purged when a product is saved"),
    *_of("database-schema", "how is money stored in the database", "soft delete deleted_at"),
    *_of("migrations", "must migrations be backward compatible?"),
    *_of("db-connections", "what is the database statement timeout", "connection pool size"),
    *_of("error-handling", "what happens to unknown errors, do they go to Sentry"),
    *_of("logging", "how does the request id get into the logs"),
    *_of("observability", "which tracing do we use for SQL queries"),
    *_of("feature-flags", "isEnabled rollout by user hash"),
    *_of("config-loading", "what happens if an environment variable is missing"),
    *_of("i18n", "how does the server pick the language"),
    *_of("client-state", "where is cart UI state kept in the browser"),
    *_of("ui-components", "which styling does the design system use, Tailwind or CSS modules"),
    *_of("form-validation", "how are server errors mapped to form fields"),
    *_of("api-client", "does the API client retry GET requests"),
    *_of("graphql-gateway", "what is the depth limit of GraphQL queries"),
    *_of("testing-setup", "how do tests isolate the database", "test factories"),
    *_of("ci-pipeline", "which GitHub workflows exist"),
    *_of("deployment", "how does canary rollback work"),
    *_of("docker-images", "how does one image serve web, worker and scheduler"),
    *_of("release-process", "how do hotfixes get released"),
    *_of("audit-log", "how long is the audit_log retained"),
    *_of("analytics-events", "where is the event catalogue for Segment"),
    *_of("csv-import", "how are CSV rows validated during import"),
    *_of("invoices", "how do we guarantee invoice numbers without gaps"),
    *_of("gdpr-export", "what happens when a customer asks for erasure of their data"),
    *_of("customer-reviews", "who moderates reviews", "how is the average rating computed"),
    *_of("recommendations", "how is product_affinity computed"),
    *_of("monorepo-tooling", "where are the tsconfig and eslint presets"),
    *_of("repositories", "who is allowed to talk to Prisma"),
    *_of("decisions/event-bus", "why do we use an outbox instead of distributed transactions"),
]

_PATHS = [
    *_of("auth", "what does src/auth/jwt.ts do?", "explain src/auth/login.ts", group="path"),
    *_of("cart", "summarise src/cart/merge.ts", "src/cart/cart.ts", group="path"),
    *_of("inventory", "what is src/inventory/sweeper.ts for", group="path"),
    *_of("invoices", "how does src/invoices/number.ts avoid gaps in invoice numbers", group="path"),
    *_of("docker-images", "walk me through docker/entrypoint.sh", group="path"),
    *_of("rate-limiting", "what is configured in src/middleware/limits.ts", group="path"),
    *_of("migrations", "what does scripts/migrate.sh do", group="path"),
    *_of("shipping-rates", "read src/shipping/carriers/dhl.ts and explain it", group="path"),
    *_none(
        "path",
        ("what does src/auth/captcha.ts do?", "auth"),
        ("explain src/payments/paypal.ts", "payments refunds"),
        ("how does src/cart/wishlist.ts work", "cart"),
        ("what is in src/middleware/cors.ts", "auth rate-limiting http-caching error-handling"),
        ("what does lib/legacy/checkout.php do", "checkout-flow"),
        ("how does web/components/Header.tsx render the cart badge", "cart client-state"),
        ("Explain auth in services/gateway/auth/main.go", "auth"),
        ("summarise src/search/suggest.ts", "product-search"),
        ("what is src/orders/subscription.ts", "order-lifecycle"),
        ("walk through infra/terraform/rds.tf", "deployment db-connections"),
        ("what does src/mail/send.py do", "email-sending"),
    ),
]

_NEAR_MISSES = _none(
    "near-miss",
    ("how does auth logging work", "auth logging audit-log"),
    ("where are failed login attempts counted", "auth"),
    ("two factor authentication", "auth oauth-login"),
    ("how do I log in to the staging cluster", "auth deployment ci-pipeline"),
    ("session recording for analytics", "session-store analytics-events"),
    ("permissions on the S3 bucket", "permissions product-images"),
    ("file system permissions in the docker image", "permissions docker-images"),
    ("password strength rules", "auth password-reset"),
    ("how is the reset button of the filter form implemented", "password-reset form-validation"),
    ("abandoned cart reminder emails", "cart email-sending"),
    ("cart abandonment rate dashboard", "cart"),
    ("saved carts and wishlists", "cart"),
    ("checkout A/B tests", "checkout-flow feature-flags"),
    ("git checkout hook", "checkout-flow"),
    ("checkout page accessibility", "checkout-flow"),
    ("Apple Pay payments", "payments"),
    ("payments reconciliation report", "payments"),
    ("PayPal integration", "payments"),
    ("payment method tokens in the mobile app", "payments"),
    ("refund policy page content", "refunds"),
    ("chargebacks and disputes", "refunds payments"),
    ("outgoing webhooks for partners", "webhooks"),
    ("GitHub webhooks", "webhooks ci-pipeline"),
    ("order of middleware registration", "order-lifecycle"),
    ("sort order of categories", "order-lifecycle product-catalog"),
    ("order export to the ERP", "order-lifecycle"),
    ("inventory forecast", "inventory"),
    ("warehouse picking app", "order-lifecycle inventory"),
    ("search box autocomplete", "product-search"),
    ("search engine optimisation", "product-search"),
    ("full text search in audit log", "audit-log product-search"),
    ("product bundles", "product-catalog"),
    ("product feed for Google Shopping", "product-catalog"),
    ("image lazy loading in the storefront", "product-images"),
    ("docker image vulnerability scanning", "docker-images ci-pipeline"),
    ("price history chart", "product-catalog"),
    ("gift cards", "coupons-and-discounts"),
    ("loyalty discount tiers", "coupons-and-discounts"),
    ("tax reports for accounting", "tax-calculation"),
    ("shipping label printing", "shipping-rates"),
    ("exchange rates for currencies", "shipping-rates"),
    ("unsubscribe links in marketing email", "email-sending"),
    ("email verification on signup", "email-sending oauth-login"),
    ("in-app notifications inbox", "push-notifications"),
    ("Slack notifications from CI", "push-notifications ci-pipeline"),
    ("job listings on the careers page", "background-jobs"),
    ("background image of the hero banner", "background-jobs product-images"),
    ("rate of exchange API", "rate-limiting shipping-rates"),
    ("GraphQL query rate limiting by cost", "rate-limiting graphql-gateway"),
    ("browser cache of translations", "i18n http-caching"),
    ("database backups", "database-schema db-connections"),
    ("database encryption at rest", "database-schema"),
    ("JSON schema of the webhook events", "webhooks database-schema"),
    ("migration from Magento", "migrations"),
    ("Kafka connections", "db-connections"),
    ("error budget and SLOs", "error-handling observability"),
    ("error page design", "error-handling ui-components"),
    ("log rotation on the hosts", "logging"),
    ("log out everywhere button", "session-store"),
    ("logging of analytics events", "logging analytics-events"),
    ("metrics for conversion", "observability analytics-events"),
    ("feature request process", "feature-flags"),
    ("country flags icons", "feature-flags"),
    ("eslint config for tests", "monorepo-tooling config-loading testing-setup"),
    ("config of the Elasticsearch cluster", "product-search config-loading"),
    ("right-to-left layout", "i18n"),
    ("routing of support tickets", "frontend-routing"),
    ("frontend bundle size", "frontend-routing"),
    ("state of the order", "order-lifecycle client-state"),
    ("US state sales tax nexus", "tax-calculation client-state"),
    ("React Native components", "ui-components"),
    ("form builder for surveys", "form-validation"),
    ("address validation service", "form-validation"),
    ("API keys for partners", "rate-limiting api-client"),
    ("mobile api client in Kotlin", "api-client"),
    ("GraphQL subscriptions", "graphql-gateway push-notifications"),
    ("load testing with k6", "testing-setup"),
    ("visual regression tests", "testing-setup"),
    ("deployment of the mobile app", "deployment"),
    ("release notes on the blog", "release-process"),
    ("admin user impersonation", "admin-dashboard permissions"),
    ("Grafana dashboard access", "observability admin-dashboard"),
    ("audit of npm dependencies", "audit-log"),
    ("import aliases in TypeScript", "csv-import monorepo-tooling"),
    ("CSV export of orders", "csv-import gdpr-export"),
    ("import customers from CSV", "csv-import"),
    ("invoice reminders by email", "invoices email-sending"),
    ("supplier invoices", "invoices"),
    ("cookie consent banner", "analytics-events gdpr-export"),
    ("code review guidelines", "customer-reviews"),
    ("search recommendations by AI", "recommendations product-search"),
    ("naming of git branches", "naming"),
    ("git repositories of the team", "repositories"),
    ("POST /api/products", "products-get"),
    ("GET /api/orders/:id", "products-get order-lifecycle"),
    ("event sourcing of orders", "decisions/event-bus order-lifecycle"),
    ("school bus timetable", "decisions/event-bus"),
)

_NEGATED = _none(
    "negation",
    ("explain everything about login except the JWT part", "auth oauth-login"),
    ("not the auth part, but how users register", "auth"),
    ("how does the cart work, ignoring merging at login", "cart"),
    ("payments without Stripe", "payments"),
    ("the checkout, but not the payment step", "checkout-flow payments"),
    ("which caches are there besides http caching", "http-caching"),
    ("how do we send messages other than email", "push-notifications email-sending"),
    ("errors that are not handled by the error middleware", "error-handling"),
    ("search without Elasticsearch", "product-search"),
    ("don't look at feature flags; how is A/B testing done", "feature-flags"),
    ("everything about orders excluding refunds", "order-lifecycle refunds"),
    ("jobs that never run in the background", "background-jobs"),
    ("how is anything but tax calculated at checkout", "checkout-flow tax-calculation"),
    ("log levels, not the audit log", "logging audit-log"),
    ("apart from coupons, how do prices change", "coupons-and-discounts"),
    ("why are sessions no longer stored in Redis", "session-store"),
)

_FOREIGN = _none(
    "other language",
    ("wie funktioniert die Anmeldung", "auth"),
    ("Wie werden Rabatte und Gutscheine berechnet?", "coupons-and-discounts"),
    ("wo ist die Konfiguration der Datenbank", "config-loading database-schema"),
    ("¿cómo funciona el carrito de compras?", "cart"),
    ("¿dónde se calculan los impuestos?", "tax-calculation"),
    ("comment fonctionne le paiement", "payments"),
    ("où sont stockées les sessions", "session-store"),
    ("как работает авторизация", "permissions auth"),
    ("認証の仕組みを教えて", "auth"),
    ("购物车是怎么实现的", "cart"),
    ("come funziona il login con password", "auth password-reset"),
    ("hoe werkt de zoekfunctie", "product-search"),
    ("das Auth Modul und seine Tests", "auth testing-setup"),
    ("explique o fluxo de checkout e os cupons", "checkout-flow coupons-and-discounts"),
    ("로그인은 어떻게 동작하나요", "auth"),
    ("die on error", "error-handling"),
)

_EDITS = _none(
    "edit",
    ("add a note field to the cart", "cart"),
    ("fix the login redirect", "auth"),
    ("implement password reset by SMS", "password-reset"),
    ("refactor the error middleware", "error-handling"),
    ("rename the audit log table", "audit-log"),
    ("please add PayPal to the payments", "payments"),
    ("write tests for refunds", "refunds testing-setup"),
    ("make the rate limiting configurable per customer", "rate-limiting"),
    ("can you upgrade Elasticsearch in product search", "product-search"),
    ("I want to add a new coupon type", "coupons-and-discounts"),
    ("remove the feature flags that are fully rolled out", "feature-flags"),
    ("create a migration for a new column", "migrations"),
    ("update the docker images to Node 24", "docker-images"),
    ("let's move sessions from Redis to Postgres", "session-store"),
    ("change free shipping to 75 EUR", "shipping-rates"),
    ("the invoice pdf should have our new logo, change it", "invoices"),
    ("bump the JWT lifetime to 30 minutes", "auth"),
    ("delete unused webhooks", "webhooks"),
)

_SEVERAL = _none(
    "several",
    ("how do auth and checkout work", "auth checkout-flow"),
    ("cart, payments and refunds", "cart payments refunds"),
    ("logging and metrics", "logging observability"),
    ("compare the api client with the graphql gateway", "api-client graphql-gateway"),
    ("migrations and deployment", "migrations deployment"),
    ("how do webhooks use background jobs", "webhooks background-jobs"),
    ("feature flags in the admin dashboard", "feature-flags admin-dashboard"),
    ("emails and push notifications", "email-sending push-notifications"),
    ("inventory, shipping rates and tax", "inventory shipping-rates tax-calculation"),
    ("sessions and permissions", "session-store permissions"),
    ("how do customer reviews influence product search", "customer-reviews product-search"),
    ("do invoices include refunds", "invoices refunds"),
)

_UNRELATED = _none(
    "unrelated",
    ("thanks, looks good", ""),
    ("continue", ""),
    ("yes", ""),
    ("what is the weather like", ""),
    ("commit this and push", ""),
    ("run it again", ""),
    ("what did you just change?", ""),
    ("how does the video player work", ""),
    ("where is the chat widget", ""),
    ("Bluetooth pairing", ""),
    ("websocket reconnect logic", ""),
    ("explain this regular expression", ""),
    ("which ORM would you recommend", ""),
    ("give me an overview of the codebase", ""),
    ("list all TODO comments", ""),
    ("how is memory allocated in the renderer", ""),
    ("what is the time zone handling", ""),
    ("undo the last edit", ""),
    ("show me the git log", ""),
    ("where is the main entry point", ""),
    ("?", ""),
    ("the", ""),
    ("how does it work", ""),
    ("what are the files in this project", ""),
    ("/compact", ""),
)

_AGENTS = [
    *_of(
        "auth",
        """Explore authentication flow

I need to understand how authentication works in this codebase. Please find:
1. Where login is handled and how passwords are verified
2. How JWT access tokens and refresh tokens are issued
3. The middleware that protects routes

Be very thorough. Report back file paths with line numbers and a short summary.""",
        """Investigate the auth system.

Look for the login endpoint, token creation and verification, and any middleware which checks the
user on each request. Thoroughness: very thorough. Do not modify any files; this is research only.
Return the key files and functions.""",
        group="agent",
    ),
    *_of(
        "cart",
        """Find how the shopping cart works. Search for the cart model, the routes, how anonymous
carts are merged at login, and where totals are computed. Medium thoroughness. Give me a concise
report with absolute paths.""",
        group="agent",
    ),
    *_of(
        "checkout-flow",
        """Explore checkout flow

I'm trying to understand the checkout flow end to end. Specifically:
- what steps the wizard has and which routes serve them
- how the checkout draft is saved between steps
- how placing the order works

Please be thorough and list all relevant files. Don't write any code.""",
        group="agent",
    ),
    *_of(
        "background-jobs",
        """Understand background job system

Explore how background jobs are implemented: which queue library is used, how a job handler is
registered, how retries and backoff work, and what happens to failed jobs. Report file paths and
code snippets.""",
        group="agent",
    ),
    *_of(
        "error-handling",
        """How are errors handled?

Very thorough exploration please. I want to know what error classes exist, how the error middleware
turns them into responses, what is reported to Sentry, and with which status codes. Summarise your
findings in a few paragraphs.""",
        group="agent",
    ),
    *_of(
        "feature-flags",
        """Locate feature flag code

Find everything related to feature flags: where flags are stored, how isEnabled is evaluated
including percentage rollout, caching, and how React components use them (useFlag). Quick search is
fine.""",
        group="agent",
    ),
    *_of(
        "order-lifecycle",
        """Explore order state machine

Explore the codebase and explain the order lifecycle: all states, the allowed transitions, where the
transitions are defined, and which events are emitted. Provide exact file paths.""",
        group="agent",
    ),
    *_of(
        "deployment",
        """Investigate deployment setup

How is this application deployed? Look at the Helm chart, the rollout strategy (canary?), and how
rollback happens. Check whether migrations run before the upgrade. Report back in bullet points.""",
        group="agent",
    ),
    *_of(
        "i18n",
        """Explore i18n implementation

Thoroughly explore how internationalization is done. Where are the translation messages, how are
they loaded in React, how does the server choose the language for a request? Return a summary.""",
        group="agent",
    ),
    *_of(
        "product-search",
        """Explore product search

Task: understand how product search is implemented with Elasticsearch. Look into query building,
the indexer, mappings, facets and synonyms. I need the file paths and a description of each.""",
        group="agent",
    ),
    *_of(
        "testing-setup",
        """Look at test setup

Explore the testing infrastructure of this repository: the unit test runner (Vitest?), Playwright
e2e tests, factories and how each test gets a clean database. Report the config files.""",
        group="agent",
    ),
    *_of(
        "rate-limiting",
        """Find rate limiting

Search the codebase for rate limiting: the middleware, where limits by route are configured, what
is stored in Redis, and what clients get when they exceed the limit. Be concise.""",
        group="agent",
    ),
    *_of(
        "webhooks",
        """Explore webhook handling

I want to know how incoming webhooks are received: signature verification, storage, idempotency,
and the worker that processes them. Very thorough. List files with their roles.""",
        group="agent",
    ),
    *_of(
        "csv-import",
        """Understand CSV import

Explore how the product CSV import works: parsing, row validation, batching of upserts, reporting
of errors to the user. Please include file paths.""",
        group="agent",
    ),
    *_of(
        "permissions",
        """Explore authorization

Explore how role-based authorization works here. Where are roles defined, where is the policy
consulted, how do route guards use it? Report with file paths. Do not edit anything.""",
        group="agent",
    ),
    *_of(
        "tax-calculation",
        """Explore tax calculation

Explain how tax is calculated: which service computes VAT, what is cached, how B2B customers with a
VAT id are treated. Be thorough, check all relevant files.""",
        group="agent",
    ),
    *_of(
        "email-sending",
        """Map email sending

Find how this project sends email: template rendering, the mail queue and its worker, the provider
(SES?), retries and bounces. Report the main files.""",
        group="agent",
    ),
    *_none(
        "agent",
        (
            """Explore authentication logging

I need to understand what is logged when a user logs in or fails to log in. Find the audit events
for authentication, their format, and where they are shipped. Be very thorough.""",
            "auth logging audit-log",
        ),
        (
            """Explore wishlist feature

Find out whether there is a wishlist. If there is, describe the model, the routes and the UI. Look
at how it relates to the cart. Be thorough and report file paths.""",
            "cart",
        ),
        (
            """Plan adding Apple Pay

We want to add Apple Pay to the checkout. Explore how payments are implemented with Stripe, which
components render the payment step, and what has to change. Report back a list of files.""",
            "payments checkout-flow",
        ),
        (
            """Investigate flaky checkout test

The Playwright test for checkout fails about once in ten runs in CI with a timeout at the payment
step. Find out why. Look at the test, the payment form, and the waits.""",
            "testing-setup checkout-flow payments ci-pipeline",
        ),
        (
            """Explore project structure

Give me an overview of this repository: the main directories, the technologies used, how the parts
relate to each other. Very thorough. List the most important files.""",
            "monorepo-tooling",
        ),
        (
            """Find dead code

Search the whole codebase for exported functions that nobody uses. Report them by package with file
paths and line numbers.""",
            "",
        ),
        (
            """Explore subscriptions

How do recurring subscriptions (monthly boxes) work? Find the billing cycle, how payments are
retried, how customers pause a subscription. Report file paths.""",
            "payments push-notifications cron-schedules",
        ),
        (
            """Explore auth in the mobile app

Explore how the React Native app authenticates: secure storage of tokens, biometric unlock, deep
links after OAuth. The web part is not interesting. Report file paths.""",
            "auth oauth-login",
        ),
        (
            """Trace slow requests

Product pages became slow since yesterday. Find out which queries run for a product page, whether
they are cached, and where an index is missing. Be very thorough.""",
            "http-caching product-catalog database-schema observability",
        ),
        (
            """Explore search and recommendations

I need to understand two things: how product search ranks its results, and how recommendations are
computed and shown. Explore both and report the files.""",
            "product-search recommendations",
        ),
        (
            """Check GDPR compliance

Go through all places where personal data is stored or sent to third parties (analytics, email,
logs, backups) and list them with retention times. Be very thorough.""",
            "gdpr-export analytics-events logging email-sending",
        ),
        (
            """Explore vendor payouts

Marketplace vendors get paid weekly. Find how payouts are calculated, where fees are configured and
how Stripe Connect accounts are created. Report file paths.""",
            "payments",
        ),
        (
            """Understand cache invalidation bug

After a price change the old price is shown for minutes in the cart but not on the product page.
Explore the cart and the caching layers to explain it.""",
            "cart http-caching",
        ),
        (
            """Investigate orders export

How are orders exported to the ERP every night? Look for the cron job, the file format, SFTP upload
and error handling. Thorough.""",
            "cron-schedules order-lifecycle error-handling background-jobs",
        ),
    ),
]

QUESTIONS = (
    *_SHORT,
    *_IN_OTHER_WORDS,
    *_PATHS,
    *_NEAR_MISSES,
    *_NEGATED,
    *_FOREIGN,
    *_EDITS,
    *_SEVERAL,
    *_UNRELATED,
    *_AGENTS,
)
