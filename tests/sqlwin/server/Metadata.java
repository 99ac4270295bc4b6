import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Properties;

/** Prints what PostgreSQL's JDBC driver knows about a server: the calls of DBeaver and Metabase. */
public class Metadata {
    public static void main(String[] arguments) throws Exception {
        Properties login = new Properties();
        login.setProperty("user", arguments[1]);
        login.setProperty("password", arguments[2]);
        try (Connection connection = DriverManager.getConnection(arguments[0], login)) {
            connection.setReadOnly(true);
            DatabaseMetaData data = connection.getMetaData();
            System.out.println(data.getDatabaseProductName() + " " + data.getDatabaseMajorVersion());
            System.out.println(connection.getCatalog() + " " + connection.getSchema());
            print("getCatalogs", data.getCatalogs(), 1);
            print("getSchemas", data.getSchemas(), 1);
            String[] kinds = {"TABLE", "VIEW", "MATERIALIZED VIEW", "FOREIGN TABLE"};
            print("getTables", data.getTables(null, "public", "%", kinds), 2, 3, 4);
            print("getTables of fl", data.getTables(null, null, "fl%", null), 2, 3, 4);
            print("getColumns", data.getColumns(null, "public", "fares", "%"), 4, 5, 6, 7, 9, 12, 18);
            print("getPrimaryKeys", data.getPrimaryKeys(null, "public", "fares"), 3, 4, 5, 6);
            print("getIndexInfo", data.getIndexInfo(null, "public", "fares", true, false), 3, 4, 6, 8, 9);
            print("getImportedKeys", data.getImportedKeys(null, "public", "fares"), 3);
            print("getExportedKeys", data.getExportedKeys(null, "public", "fares"), 3);
            print("getBestRowIdentifier", data.getBestRowIdentifier(null, "public", "fares", 0, true), 2);
            print("getTablePrivileges", data.getTablePrivileges(null, "public", "fares"), 3);
            print("getFunctions", data.getFunctions(null, "public", "tumble"), 2, 3);
            print("getProcedures", data.getProcedures(null, "public", "%"), 3);
            print("getUDTs", data.getUDTs(null, null, "%", null), 3);
            int nTypes = 0;
            try (ResultSet types = data.getTypeInfo()) {
                while (types.next()) {
                    nTypes += "int4 text timestamptz".contains(types.getString(1)) ? 1 : 0;
                }
            }
            System.out.println("getTypeInfo " + nTypes);
            System.out.println("getMaxColumnNameLength " + data.getMaxColumnNameLength());
            System.out.println("getSQLKeywords " + data.getSQLKeywords().contains("limit"));
            System.out.println("isolation " + connection.getTransactionIsolation());
            query(connection);
        }
    }

    /** Print the rows of a prepared query, which the driver fetches in parts. */
    private static void query(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        String sql = "SELECT origin, dep_delay FROM flights WHERE dep_delay > ?";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            statement.setFetchSize(10);
            statement.setInt(1, 600);
            try (ResultSet rows = statement.executeQuery()) {
                int nRows = 0;
                while (rows.next()) {
                    nRows += rows.getInt(2) > 600 ? 1 : 0;
                }
                System.out.println(rows.getMetaData().getColumnTypeName(2) + " " + nRows);
            }
        }
        connection.commit();
    }

    private static void print(String call, ResultSet rows, int... columns) throws SQLException {
        System.out.println("-- " + call);
        while (rows.next()) {
            StringBuilder line = new StringBuilder();
            for (int column : columns) {
                line.append(line.length() > 0 ? "|" : "").append(rows.getString(column));
            }
            System.out.println(line);
        }
        rows.close();
    }
}
